"""A decoding loop of its own, which hands the cache of keys and values back to the model at every step."""

import json
import os

import torch
from transformers import (
    AutoModelForCausalLM,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

model = AutoModelForCausalLM.from_pretrained(os.path.join(os.path.dirname(__file__), "lm")).to("cuda").eval()


class StopOnTokens(StoppingCriteria):
    def __init__(self, stop_ids):
        self.stop_ids = stop_ids

    def __call__(self, input_ids, scores, **kwargs):
        return torch.tensor([row[-1].item() in self.stop_ids for row in input_ids], device=input_ids.device)


class Forbid(LogitsProcessor):
    def __init__(self, token):
        self.token = token

    def __call__(self, input_ids, scores):
        scores[:, self.token] = -float("inf")
        return scores


@torch.no_grad()
def decode(ids, steps):
    input_ids = torch.tensor([ids], device=model.device)
    past, out = None, []
    for _ in range(steps):
        result = model(input_ids=input_ids, past_key_values=past, use_cache=True)
        past = result.past_key_values
        input_ids = result.logits[:, -1:].argmax(-1)
        out.append(input_ids.item())
    return out, past.get_seq_length()


def handle(event, context):
    ids = json.loads(event.body)
    if event.path == "/loop":
        tokens, length = decode(ids, 6)
        return {"tokens": tokens, "length": length}
    input_ids = torch.tensor([ids]).to(model.device)
    stopped = model.generate(
        input_ids,
        attention_mask=torch.ones_like(input_ids),
        max_new_tokens=8,
        do_sample=False,
        pad_token_id=0,
        logits_processor=LogitsProcessorList([Forbid(3)]),
        stopping_criteria=StoppingCriteriaList([StopOnTokens({7, 11})]),
    )
    return {"tokens": stopped[0].tolist()}
