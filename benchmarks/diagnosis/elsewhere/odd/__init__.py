"""Healthy ways to train that look odd: nobody should be warned of them."""
