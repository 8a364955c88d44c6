"""Holds the rules of the gate, one file each; `kveval.judge.gate.check.Rule` says how to add one."""
