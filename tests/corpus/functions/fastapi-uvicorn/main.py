from contextlib import asynccontextmanager

import torch
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from torch import nn

ml_models = {}


class Item(BaseModel):
    features: list[float]
    scale: float = 1.0


class Prediction(BaseModel):
    label: str
    scores: list[float]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x, scale=1.0):
        return torch.softmax(self.net(x) * scale, dim=-1)


@asynccontextmanager
async def lifespan(app):
    torch.manual_seed(52)
    ml_models["classifier"] = Classifier().to("cuda").eval()
    yield
    ml_models.clear()


app = FastAPI(lifespan=lifespan)


@app.post("/predict", response_model=Prediction)
def predict(item: Item):
    if len(item.features) != 4:
        raise HTTPException(status_code=422, detail="4 features, please")
    with torch.no_grad():
        scores = ml_models["classifier"](torch.tensor([item.features]).to("cuda"), scale=item.scale)[0]
    return Prediction(label="abc"[scores.argmax().item()], scores=scores.tolist())


@app.post("/async")
async def predict_async(item: Item):
    return {"scores": ml_models["classifier"](torch.tensor(item.features).cuda()).tolist()}


@app.post("/stream")
async def stream(item: Item):
    async def rows():
        for step in range(3):
            x = torch.tensor(item.features).cuda() + step
            yield f"{ml_models['classifier'](x).argmax().item()}\n"

    return StreamingResponse(rows(), media_type="text/plain")
