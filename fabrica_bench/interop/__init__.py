"""Doors to other evaluation frameworks; each needs an extra and nothing else imports it."""
