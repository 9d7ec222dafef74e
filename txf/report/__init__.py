"""What a person looks at: the figures and the HTML report of a sweep."""

from etils import epath


def build_report(sweep_dir: epath.PathLike) -> epath.Path:
    """Write SWEEP/report.html and SWEEP/figures/ from what the sweep's runs have left.

    Also brings SWEEP/results.csv and SWEEP/verdicts.json up to date, which hold the same numbers.
    Works on a sweep that is not complete, and says what is missing.  The same results give the same
    bytes.

    Args:
        sweep_dir: a sweep's folder.

    Returns:
        The report's path.

    Raises:
        UserError: the folder holds no readable sweep.json.
    """
    from txf.report.document import write_report  # loads matplotlib

    return write_report(sweep_dir)
