"""The machine's limits: what is published of a device, what is measured, and memory."""

import jax
import pytest

from txf.training import peak


class Device:
    def __init__(self, kind, stats=None):
        self.device_kind, self.stats = kind, stats

    def memory_stats(self):
        return self.stats


def test_a_published_figure_is_of_the_device_and_the_type():
    assert peak.published_peak("NVIDIA H200", "bfloat16") == 989.4e12
    assert peak.published_peak("NVIDIA H200", "float32") == 494.7e12
    assert peak.published_peak("TPU v5 lite", "float32") == 197e12
    # Names that begin as others do are others.
    assert peak.published_peak("NVIDIA L40S", "float32") is None
    assert peak.published_peak("TPU v4 lite", "bfloat16") is None
    assert peak.published_peak("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "float32") is None
    assert peak.published_peak("Tesla T4", "bfloat16") is None
    assert peak.published_peak("cpu", "float32") is None


def test_the_table_holds_what_can_be():
    for kind, (half, single) in peak.PUBLISHED.items():
        assert 8 <= single < 1000, kind
        assert half is None or single <= half < 1000, kind


def test_devices_add_up(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [Device("NVIDIA H200")] * 7)
    monkeypatch.setattr(peak, "matmul_rate", never)
    found = peak.device_peak("bfloat16", devices=7)
    assert found.flops_per_second == pytest.approx(7 * 989.4e12)
    assert found.source == "published for NVIDIA H200"


def test_what_is_not_published_is_measured_once(monkeypatch):
    calls = []
    monkeypatch.setattr(peak, "matmul_rate", lambda dtype: calls.append(dtype) or 7e9)
    peak._measured.cache_clear()
    assert peak.device_peak("float32", measures=False) is None and not calls
    found = [peak.device_peak("float32", devices) for devices in (1, 3)]
    peak._measured.cache_clear()
    # Devices that a CPU plays are no more than the CPU.
    assert [one.flops_per_second for one in found] == [7e9, 7e9]
    assert found[0].source.startswith("measured")
    assert calls == ["float32"]


def test_the_rate_is_that_of_a_machine():
    assert 1e8 < peak.matmul_rate() < 1e16


def test_memory_is_the_devices_or_the_process(monkeypatch):
    assert 1e7 < peak.peak_memory() < 1e12
    stats = [{"peak_bytes_in_use": 5}, {"peak_bytes_in_use": 11}, None]
    monkeypatch.setattr(jax, "local_devices", lambda: [Device("a", found) for found in stats])
    assert peak.peak_memory() == 11


def never(*_):
    raise AssertionError("nothing is measured where a figure is published")
