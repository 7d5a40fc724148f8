"""Asks everything about the GPU that scripts ask before they begin, and frees memory as they do."""

import gc

import torch
from torch import nn

assert torch.cuda.is_available(), "needs a GPU"
torch.cuda.set_device(0)
properties = torch.cuda.get_device_properties(0)
print(f"Using {torch.cuda.get_device_name(0)} ({properties.total_memory / 1024**3:.1f} GB)")
print(f"Compute capability {properties.major}.{properties.minor}")
torch.manual_seed(33)
model = nn.Linear(2, 2).to(torch.device("cuda", torch.cuda.current_device()))


def handle(event, context):
    torch.cuda.reset_peak_memory_stats()
    with torch.cuda.device(0), torch.no_grad():
        y = model(torch.ones(2, device="cuda:0"))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    del y
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()
    free, total = torch.cuda.mem_get_info()
    return {
        "count": torch.cuda.device_count(),
        "current": torch.cuda.current_device(),
        "name": isinstance(torch.cuda.get_device_name(), str),
        "capability": all(isinstance(n, int) for n in torch.cuda.get_device_capability()),
        "memory": properties.total_memory > 2**30,
        "processors": properties.multi_processor_count > 0,
        "allocated": isinstance(before, int) and torch.cuda.max_memory_allocated() >= 0 <= torch.cuda.memory_reserved(),
        "free": 0 < free <= total,
        "bf16": torch.cuda.is_bf16_supported(),
        "initialized": torch.cuda.is_initialized(),
        "parameters": str(next(model.parameters()).device),
        "is_cuda": next(model.parameters()).is_cuda,
        "summary": isinstance(torch.cuda.memory_summary(), str),
        "version": torch.version.cuda is None or isinstance(torch.version.cuda, str),
    }
