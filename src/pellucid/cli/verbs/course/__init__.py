"""The commands of the course: experiments and lessons."""
