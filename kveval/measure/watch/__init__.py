"""What is looked at while a variant is asked: a server is not believed for a whole night."""
