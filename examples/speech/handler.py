"""Speech detection: a WAV file in, the seconds in which somebody speaks out.

This is silero-vad as its own documentation shows it, moved to the GPU. The model is TorchScript, keeps
state from one window of 32 ms to the next, and is called once for each of them.
"""

import io
import wave

import torch
from silero_vad import get_speech_timestamps, load_silero_vad

model = load_silero_vad().to("cuda")


def handle(event, context):
    try:
        with wave.open(io.BytesIO(event.body)) as clip:
            rate, width, channels = clip.getframerate(), clip.getsampwidth(), clip.getnchannels()
            samples = clip.readframes(clip.getnframes())
    except (wave.Error, EOFError) as error:
        return {"statusCode": 400, "body": f"Send a WAV file: {error}."}
    if (rate, width, channels) != (16000, 2, 1):
        return {"statusCode": 400, "body": "Send 16 kHz, 16-bit, mono."}
    audio = torch.frombuffer(bytearray(samples), dtype=torch.int16).float() / 32768
    speech = get_speech_timestamps(audio, model, return_seconds=True)
    return {"statusCode": 200, "body": {"seconds": round(len(audio) / rate, 2), "speech": speech}}
