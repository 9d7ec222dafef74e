"""What a sweep came to: its table and report, written and shown."""


def publish(workdir: str) -> None:
    """Write results.csv and the report, and print the arms, the verdicts and the report's path."""
    from txf.report import build_report
    from txf.sweeps.hypotheses import evaluate_sweep
    from txf.sweeps.reading import read_sweep
    from txf.sweeps.table import arms_table, format_terminal, write_results

    frame = write_results(workdir)
    sweep = read_sweep(workdir)
    print(f"\n{format_terminal(arms_table(frame, sweep.tuned), sweep.tuned)}\n")
    for verdict in evaluate_sweep(sweep):
        print(f"{verdict.verdict:>10}: {verdict.name} ({verdict.claim})")
    print(f"\nreport: {build_report(workdir)}", flush=True)
