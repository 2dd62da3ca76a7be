"""Poolwise inside other tools: each adapter is one small file that imports its host only when used."""
