"""What may be tried: parameters, the constraints between them, and their map to the unit cube."""
