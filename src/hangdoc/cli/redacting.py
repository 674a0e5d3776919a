"""`--redact`: what is printed and what is saved without names, by one table of stand-ins for the whole command."""

from __future__ import annotations

from pathlib import Path

from ..model.launch import Launch
from ..model.report import Report
from ..model.sample import Sample
from ..report.anonymise import Names, anonymise
from ..session.casefile import CaseWriter
from . import screen
from .options import open_case


class Redaction:
    """What is done to a case and to a report; nothing unless it is wanted."""

    def __init__(self, *, wanted: bool) -> None:
        self.names = Names(paths=True) if wanted else None

    def case(self, path: Path, first: Sample, launch: Launch) -> CaseWriter | RedactedCase:
        """A new case file. Raises Stop."""
        if self.names is None:
            return open_case(path, first, launch)
        self.names.add_hosts(hosts_in(first))
        return RedactedCase(open_case(path, first, launch, self.names.text), self.names)

    def report(self, report: Report) -> Report:
        """The report to be shown; what was taken out is counted on standard error."""
        if self.names is None:
            return report
        found = anonymise(report, self.names)
        listed = ", ".join(f"{count} {kind}" for kind, count in found.redacted.items())
        screen.note(f"hangdoc: taken out: {listed or 'nothing was found'}")
        return found


class RedactedCase:
    """Takes the names out of samples before they are written to a case."""

    def __init__(self, case: CaseWriter, names: Names) -> None:
        self._case, self._names = case, names

    def add(self, sample: Sample) -> None:
        """Append one sample; OSError as from the case itself."""
        self._names.add_hosts(hosts_in(sample))
        self._case.add(self._names.everything(sample))

    def close(self) -> None:
        """Close the file."""
        self._case.close()


def hosts_in(sample: Sample) -> set[str]:
    """Every host that a sample names."""
    facts = sample.facts_by_place.values()
    told = {one.env["HOSTNAME"] for one in sample.processes.values() if one.env and one.env.get("HOSTNAME")}
    return {sample.host, *(one.host for one in sample.places), *(one.name for one in facts), *told} - {""}
