"""Makes every variant write the same texts, to see how far it moves from the baseline."""
