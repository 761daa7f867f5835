"""Conversations: messages, chat templates and the tokens they become."""
