"""Lines that vLLM logs."""

# Lines of vLLM 0.32.0 on CPU; the configuration line is shortened in the middle.
CPU_LOG = """\
(EngineCore pid=11886) INFO 11-29 17:22:59 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: \
model='/models/smollm2', speculative_config=None, tokenizer='/models/smollm2', dtype=torch.bfloat16, \
max_seq_len=2104, quantization=None, enforce_eager=True, kv_cache_dtype=fp8, device_config=cpu, seed=0, \
enable_prefix_caching=True, compilation_config={'backend': 'inductor', 'compile_ranges_endpoints': [2048]}
(Worker pid=11709) INFO 11-29 17:22:10 [parallel_state.py:1906] world_size=1 rank=0 local_rank=0 backend=gloo
(EngineCore pid=11687) INFO 11-29 17:22:12 [kv_cache_utils.py:2327] CPU KV cache size: 45,050 tokens, \
Maximum concurrency for 2,104 tokens per request: 21.41x
Triton is installed, but doesn't include CPU backend. Disabling Triton.
"""

GPU_LOG = """\
INFO 01-01 00:00:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='/m', \
dtype=torch.float16, enforce_eager=False, kv_cache_dtype=int8_per_token_head, device_config=cuda, seed=0
INFO 01-01 00:00:01 [cuda.py:300] Using TRITON_ATTN attention backend out of potential backends: \
['TRITON_ATTN', 'FLEX_ATTENTION'].
INFO 01-01 00:00:02 [scheduler.py:200] Chunked prefill is enabled with max_num_batched_tokens=8192.
"""
