"""Logs as campaigns publish them: which columns are read, in which units, and how a log is cut into links."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.errors import ContentError
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.data.traces import read_trace, read_traces, write_trace
from tests.stream.helpers import links

if TYPE_CHECKING:
    from pathlib import Path

CORK = """Timestamp,Longitude,Latitude,Speed,NetworkMode,RSRP,DL_bitrate,UL_bitrate,State,PINGAVG
2019.12.16_13.40.04,-8.5,51.9,1,5G,-81,8000,20,D,30
2019.12.16_13.40.05,-8.5,51.9,1,5G,-81,12000,20,D,-
2019.12.16_13.40.05,-8.5,51.9,1,5G,-81,16000,20,D,50
2019.12.16_13.40.06,-8.5,51.9,1,5G,-81,-,20,D,-
2019.12.16_13.40.08,-8.5,51.9,1,5G,-81,4000,20,D,-
"""
LUMOS = """run_num,seq_num,abstractSignalStr,nrStatus,Throughput,mobility_mode
1,1,2,CONNECTED,125,walking
1,2,2,CONNECTED,250.5,walking
2,1,3,CONNECTED,900,driving
2,2,3,CONNECTED,0,driving
2,3,3,CONNECTED,,driving
"""
DRIVE = """time,throughput,speed,latitude,longtitu,area_type
2023-04-28 16:02:11 CDT,3.74,25.8,45.0,-93.2,suburban
2023-04-28 16:02:12 CDT,4.78,24.7,45.0,-93.2,suburban
2023-04-28 16:02:13 CDT,5.39,24.7,45.0,-93.2,suburban
2023-04-28 17:00:00 CDT,1.0,24.7,45.0,-93.2,urban
2023-04-28 17:00:01 CDT,2.0,24.7,45.0,-93.2,urban
"""
PUFFER = """time (ns GMT),session_id,index,expt_id,channel,video_ts,format,size,ssim_index,min_rtt,rtt,delivery_rate
1634427000000000000,aa==,0,1,abc,0,1280x720-24,200000,0.98,9000,20000,1000000
1634427001000000000,bb==,3,1,abc,0,1280x720-24,200000,0.98,9000,40000,500000
1634427002002000000,aa==,0,1,abc,1,1280x720-24,200000,0.98,9000,30000,2000000
1634427004004000000,aa==,0,1,abc,2,1280x720-24,200000,0.98,9000,30000,250000
"""
FCC = """unit_id,dtime,target,address,fetch_time,bytes_total,bytes_sec,objects
17,2016-06-01 00:00:01,http://edition.cnn.com,1.2.3.4,900000,900000,1000000,10
17,2016-06-01 01:00:01,http://edition.cnn.com,1.2.3.4,900000,900000,500000,10
18,2016-06-01 00:00:01,http://edition.cnn.com,1.2.3.4,900000,900000,250000,10
18,2016-06-01 00:00:01,http://amazon.com,1.2.3.4,900000,900000,250000,10
18,2016-06-01 01:00:01,http://amazon.com,1.2.3.4,900000,900000,125000,10
"""


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def test_cork_in_kilobits_with_rows_of_one_moment_averaged(tmp_path: Path) -> None:
    trace = read_trace(log(tmp_path, CORK))
    assert trace.kbps.tolist() == [8000, 14000, 4000]
    assert trace.durations_ms.tolist() == [1000, 3000, 2000]  # the row without a rate adds nothing but time
    assert trace.latency_ms.tolist() == [30, 25, 0]


def test_lumos5g_in_megabits_one_link_per_run(tmp_path: Path) -> None:
    first, second = read_traces(log(tmp_path, LUMOS))
    assert (first.name, second.name) == ("log-1", "log-2")
    assert first.kbps.tolist() == [125_000, 250_500]
    assert second.kbps.tolist() == [900_000, 0]
    with pytest.raises(ContentError, match="a log of 2 links; read them all with read_traces"):
        read_trace(tmp_path / "log.csv")


def test_a_drive_is_cut_where_nothing_was_measured_for_long(tmp_path: Path) -> None:
    first, second = read_traces(log(tmp_path, DRIVE))
    assert first.kbps.tolist() == [3740, 4780, 5390]
    assert second.kbps.tolist() == [1000, 2000]
    assert second.durations_ms.tolist() == [1000, 1000]


def test_puffer_in_bytes_one_link_per_stream(tmp_path: Path) -> None:
    (only,) = read_traces(log(tmp_path, PUFFER))  # the other stream has a single chunk
    np.testing.assert_allclose(only.kbps, [8000, 16000, 2000])
    np.testing.assert_allclose(only.durations_ms, [2002, 2002, 2002], atol=1e-3)
    np.testing.assert_allclose(only.latency_ms, [20, 30, 30])


def test_fcc_in_slots_of_five_seconds_one_link_per_unit_and_target(tmp_path: Path) -> None:
    first, second = read_traces(log(tmp_path, FCC))
    assert first.kbps.tolist() == [8000, 4000]
    assert second.kbps.tolist() == [2000, 1000]
    assert first.durations_ms.tolist() == [5000, 5000]
    assert second.name == "log-18-http_amazon.com"


def test_what_iperf3_prints_is_a_trace(tmp_path: Path) -> None:
    report = {"intervals": [{"sum": {"start": 0, "seconds": 1.0, "bits_per_second": r}} for r in (4e6, 2e6)]}
    (tmp_path / "iperf.json").write_text(json.dumps(report))
    trace = read_trace(tmp_path / "iperf.json")
    assert trace.kbps.tolist() == [4000, 2000]
    (tmp_path / "iperf.json").write_text(json.dumps({"intervals": [{}]}))
    with pytest.raises(ContentError, match="interval 0: it has no sum; give what `iperf3 --json` printed"):
        read_trace(tmp_path / "iperf.json")


def test_two_columns_may_have_commas(tmp_path: Path) -> None:
    assert read_trace(log(tmp_path, "0.5,3.0\n1.5,4.0\n2.5,2.0\n")).kbps.tolist() == [4000, 2000]


def test_of_a_mahimahi_pair_the_way_down_is_read(tmp_path: Path) -> None:
    for name in ("drive.up", "drive.down", "alone.up"):
        write_trace(links(3)[0], tmp_path / name, "mahimahi")
    assert [trace.name for trace in read_traces(tmp_path)] == ["alone.up", "drive.down"]
    assert read_trace(tmp_path / "drive.up").name == "drive.up"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alpha,beta\n1,2\n", "columns .* are of no log that is known; those have .* Write two columns"),
        ("time,throughput\nyesterday,4\n", "line 2: the time is 'yesterday'; write seconds, or a date like"),
        ("time,throughput\n1,0\n2,0\n", "no link of two rows or more with a throughput above 0; check"),
        ("time,throughput\n1,-\n", "no link of two rows or more"),
        ("time,throughput\n1,2000\n2,2000\n", "the median rate is 2e.06 kbit/s"),
    ],
)
def test_logs_that_make_no_sense_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ContentError, match=message):
        read_traces(log(tmp_path, text))


def test_a_log_is_converted_into_a_folder_and_drawn(tmp_path: Path) -> None:
    log(tmp_path, LUMOS)
    assert main(["traces", "convert", str(tmp_path / "log.csv"), "-o", str(tmp_path / "links")]) == 0
    assert sorted(path.name for path in (tmp_path / "links").iterdir()) == ["log-1.json", "log-2.json"]
    assert main(["traces", str(tmp_path / "log.csv"), "--figure", str(tmp_path / "set.html")]) == 0
    assert "log-2" in (tmp_path / "set.html").read_text()


def test_sizes_of_another_ladder_have_its_own_rates(tmp_path: Path) -> None:
    """ABRBench's second video: six files as Pensieve's, 1 to 40 Mbit/s."""
    for rung, kbps in enumerate((1000, 2500, 5000, 8000, 16000, 40000)):
        (tmp_path / f"video_size_{rung}").write_text("\n".join([str(kbps * 500)] * 10))
    assert read_ladder(tmp_path).bitrates_kbps.tolist() == [1000, 2500, 5000, 8000, 16000, 40000]
