"""Builds prompts of exact token length: filler, needles, questions and chats."""
