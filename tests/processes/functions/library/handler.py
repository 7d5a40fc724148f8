"""Another transformers than the platform's, in the handler and on the slice."""

import torch
import transformers


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        config = transformers.BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
        self.bert = transformers.BertModel(config)

    def forward(self, ids):
        import transformers

        found = [float(part) for part in transformers.__version__.split(".")[:3]]
        return torch.tensor(found), self.bert(input_ids=ids).last_hidden_state[0, 0, :4]


model = Encoder().eval()
IDS = torch.tensor([[1, 2, 3, 4]])
with torch.no_grad():
    expected = model(IDS)[1].tolist()
model.to("cuda")


def handle(event, context):
    with torch.no_grad():
        version, found = model(IDS.to("cuda"))
    there = ".".join(str(int(part)) for part in version.tolist())
    seen = {"here": transformers.__version__, "there": there, "found": found.tolist(), "expected": expected}
    return {"statusCode": 200, "body": seen}
