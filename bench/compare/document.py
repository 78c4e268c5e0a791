"""Generated parts of a Markdown document, each between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""


def fill(text, name, content):
    """The text with what stands between the markers of that name replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the document needs one pair of markers '{name}'")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    middle = f"\n{content.strip()}\n" if content.strip() else "\n"
    return before + begin + middle + end + after
