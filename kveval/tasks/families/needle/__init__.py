"""Facts planted in filler text and questions about them."""
