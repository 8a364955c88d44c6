"""What `import kveval` offers: one function per command, and the types they take and return."""
