import os

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline, set_seed

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "writer")
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, low_cpu_mem_usage=True)
generator = pipeline("text-generation", model=model, tokenizer=tokenizer, device=torch.device("cuda"))


def handle(event, context):
    set_seed(42)
    greedy = generator(event.body.decode(), max_new_tokens=5, do_sample=False)
    sampled = generator(event.body.decode(), max_new_tokens=5, do_sample=True, top_k=5, num_return_sequences=2)
    return {"greedy": greedy[0]["generated_text"], "sampled": [one["generated_text"] for one in sampled]}
