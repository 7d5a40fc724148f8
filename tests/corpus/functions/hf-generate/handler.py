import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = str(Path(__file__).parent / "llm")
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, device_map="auto", dtype=torch.float32)
model.eval()


def handle(event, context):
    asked = json.loads(event.body)
    inputs = tokenizer(asked["prompts"], return_tensors="pt", padding=True).to(model.device)
    ids = model.generate(
        **inputs, max_new_tokens=asked.get("max_new_tokens", 8), do_sample=False, pad_token_id=tokenizer.eos_token_id
    )
    new = ids[:, inputs["input_ids"].shape[1] :]
    scored = model.generate(
        **inputs, max_new_tokens=2, do_sample=False, return_dict_in_generate=True, output_scores=True
    )
    return {
        "texts": tokenizer.batch_decode(new, skip_special_tokens=True),
        "ids": new.tolist(),
        "first_scores": torch.log_softmax(scored.scores[0], -1).tolist(),
        "parameters": model.num_parameters(),
    }
