"""A handler in the four steps of a model server: initialize, preprocess, inference, postprocess."""

import json
import os

import torch


class BaseHandler:
    def __init__(self):
        self.model = None
        self.mapping = None
        self.device = None
        self.initialized = False

    def initialize(self, model_dir, gpu_id=0):
        self.device = torch.device("cuda:" + str(gpu_id) if torch.cuda.is_available() and gpu_id is not None else "cpu")
        self.model = torch.jit.load(os.path.join(model_dir, "model.pt"), map_location=self.device)
        self.model.eval()
        with open(os.path.join(model_dir, "index_to_name.json")) as file:
            self.mapping = json.load(file)
        self.initialized = True

    def preprocess(self, data):
        return torch.stack([torch.as_tensor(row["data"], dtype=torch.float32) for row in data])

    def inference(self, data, *args, **kwargs):
        with torch.inference_mode():
            marshalled_data = data.to(self.device)
            return self.model(marshalled_data, *args, **kwargs)

    def postprocess(self, data):
        probabilities, classes = torch.topk(torch.softmax(data, dim=1), 2, dim=1)
        return [
            {self.mapping[str(index)]: p for index, p in zip(row, ps)}
            for row, ps in zip(classes.tolist(), probabilities.tolist())
        ]

    def handle(self, data):
        return self.postprocess(self.inference(self.preprocess(data)))


_service = BaseHandler()


def handle(event, context):
    if not _service.initialized:
        _service.initialize(os.path.dirname(os.path.abspath(__file__)))
    return {"statusCode": 200, "body": json.dumps(_service.handle(json.loads(event.body)))}
