import torch
from torch import nn


class CharLSTM(nn.Module):
    def __init__(self, vocabulary=27, hidden=12):
        super().__init__()
        self.hidden = hidden
        self.embed = nn.Embedding(vocabulary, 6)
        self.lstm = nn.LSTM(6, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, vocabulary)

    def forward(self, x, state):
        out, state = self.lstm(self.embed(x), state)
        return self.fc(out), state

    def init_state(self, batch):
        weight = next(self.parameters())
        return (weight.new_zeros(2, batch, self.hidden), weight.new_zeros(2, batch, self.hidden))


torch.manual_seed(39)
model = CharLSTM().to("cuda")
model.eval()


def encode(text):
    return [ord(c) - 96 if c.isalpha() else 0 for c in text.lower()]


def handle(event, context):
    h, c = model.init_state(1)
    text = event.body.decode()
    with torch.no_grad():
        for code in encode(text):
            logits, (h, c) = model(torch.tensor([[code]], device="cuda"), (h, c))
        out = []
        for _ in range(6):
            code = logits[0, -1].argmax()
            out.append(code.item())
            logits, (h, c) = model(code.view(1, 1), (h.detach(), c.detach()))
    return {"next": out, "h": h.flatten()[:4].tolist()}
