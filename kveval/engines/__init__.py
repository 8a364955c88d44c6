"""What answers: engines and the facts established about them."""
