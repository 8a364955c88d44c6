"""Sends one question to an OpenAI-compatible server and reads the streamed answer."""
