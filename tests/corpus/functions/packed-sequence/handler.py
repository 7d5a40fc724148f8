import json

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 3, batch_first=True, bidirectional=True)
        self.out = nn.Linear(6, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, lengths = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return self.out(y), lengths


torch.manual_seed(82)
tagger = Tagger().to("cuda").eval()
gru = nn.GRU(2, 3, batch_first=True).to("cuda").eval()


def handle(event, context):
    rows = [torch.tensor(row).float() for row in json.loads(event.body)]
    padded = pad_sequence(rows, batch_first=True).to("cuda")
    lengths = torch.tensor([len(row) for row in rows])
    with torch.no_grad():
        tags, found = tagger(padded, lengths)
        packed, hidden = gru(pack_sequence(rows, enforce_sorted=False).to("cuda"))
    unpacked, _ = pad_packed_sequence(packed, batch_first=True)
    return {
        "tags": tags.tolist(), "lengths": found.tolist(), "hidden": hidden.tolist(), "unpacked": unpacked.tolist(),
        "type": type(packed).__name__,
    }  # fmt: skip
