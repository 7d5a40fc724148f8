"""Chat: the answer is sent word by word, while a thread generates it."""

import os
from threading import Thread

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat")
device = "cuda:0" if torch.cuda.is_available() else "cpu"
tokenizer = AutoTokenizer.from_pretrained(path)
model = AutoModelForCausalLM.from_pretrained(path).to(device)


def stream(prompt):
    inputs = tokenizer([prompt], return_tensors="pt").to(device)
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=100)
    options = dict(inputs, streamer=streamer, max_new_tokens=10, min_new_tokens=10, do_sample=False)
    thread = Thread(target=model.generate, kwargs=options)
    thread.start()
    for text in streamer:
        if text:
            yield f"data: {text}\n\n"
    thread.join()
    yield "data: [DONE]\n\n"


def handle(event, context):
    return {"statusCode": 200, "headers": {"Content-Type": "text/event-stream"}, "body": stream(event.body.decode())}
