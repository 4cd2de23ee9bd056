"""The checks of `verify`: does a capture follow from the keys and secrets that a daemon logged?"""
