"""Gymnasium's vector-env contract over the worlds of one device."""
