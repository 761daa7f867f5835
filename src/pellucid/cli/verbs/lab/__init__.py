"""The commands of the lab: experiments on several runs."""
