"""Holds the rules of the gate, one file each; `kveval.judge.gate.rule.Rule` says how to add one."""
