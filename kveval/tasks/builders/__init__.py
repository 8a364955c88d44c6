"""Gives task families what they share: the builder they subclass, filler texts, random draws and parameters."""
