import json
import os

from transformers import pipeline

classifier = pipeline("text-classification", model=os.path.join(os.path.dirname(__file__), "intent"), device=0)


def handle(event, context):
    texts = json.loads(event.body)
    return {"statusCode": 200, "body": {"best": classifier(texts), "all": classifier(texts[0], top_k=None)}}
