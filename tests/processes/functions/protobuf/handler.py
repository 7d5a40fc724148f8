"""Uses its own protobuf: here, and in the model's forward on the slice."""

import google.protobuf
import torch
from google.protobuf import struct_pb2


class Version(torch.nn.Module):
    def forward(self, numbers):
        import google.protobuf

        return numbers + float(google.protobuf.__version__.split(".")[0])


model = Version().to("cuda")


def handle(event, context):
    message = struct_pb2.Struct()
    message["word"] = "seven"
    read = struct_pb2.Struct.FromString(message.SerializeToString())
    value = model(torch.tensor([0.0])).item()
    seen = {"here": google.protobuf.__version__, "there": value, "word": read["word"]}
    return {"statusCode": 200, "body": seen}
