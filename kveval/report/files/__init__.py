"""Files for CI: verdict.json, junit.xml and summary.md."""
