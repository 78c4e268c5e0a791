"""Who is measured. Each module makes the items of one case; what cannot be made is reported as absent, by name."""
