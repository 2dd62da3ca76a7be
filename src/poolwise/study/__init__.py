"""The study: experiments asked for and told, durable, over a search space."""
