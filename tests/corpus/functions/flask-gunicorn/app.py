import torch
from flask import Flask, jsonify, request
from torch import nn

app = Flask(__name__)

torch.manual_seed(50)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).to(device)
model.eval()


@app.route("/health", methods=["GET", "POST"])
def health():
    return jsonify(status="ok", device=device.type)


@app.route("/predict", methods=["POST"])
def predict():
    payload = request.get_json()
    if "instances" not in payload:
        return jsonify(error="instances missing"), 400
    with torch.no_grad():
        logits = model(torch.tensor(payload["instances"], dtype=torch.float32).to(device))
    return jsonify(predictions=logits.argmax(dim=1).tolist(), logits=logits.cpu().numpy().tolist())
