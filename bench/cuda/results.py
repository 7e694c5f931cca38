"""What bench/cuda/run measured, as docs/cuda-results.md.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

Nothing is in it but what the JSON of results has; what was not measured is said to be so.
"""
import csv
import math

INDUCTOR = 0.9    # target: ours over inductor, each its better way
BANDWIDTH = 0.8   # target: share of the memory's bandwidth, kernels
DURATION, DRAM = "gpu__time_duration.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed"
METRICS = [DURATION, DRAM]
UNITS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1}


def product(shape):
    return math.prod(shape)


def read_ncu(text):
    """Kernels in their order, from ncu --csv: name, seconds, share of the memory's bandwidth."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    kernels = {}
    for row in csv.DictReader(lines):
        kernel = kernels.setdefault(row.get("ID"), {"name": row.get("Kernel Name", "").split("(")[0]})
        value = row.get("Metric Value", "").replace(",", "")
        if row.get("Metric Name") == DURATION and row.get("Metric Unit") in UNITS:
            kernel["seconds"] = float(value) * UNITS[row["Metric Unit"]]
        elif row.get("Metric Name") == DRAM:
            kernel["share"] = float(value) / 100
    return [k for k in kernels.values() if "seconds" in k and "share" in k]


def best(times, *ways):
    """The smallest median of some ways, with its name; None where none was timed."""
    known = [(times[w]["median_s"], w) for w in ways if times.get(w)]
    return min(known) if known else None


def of_model(entry):
    """A model's times in one table: ours are two."""
    times = entry.get("times") or {}
    ours = times.get("ours") or {}
    return {"ours": ours.get("stream"), "ours_graph": ours.get("graph"), **{k: v for k, v in times.items() if k != "ours"}}


def faults(told):
    """What was wrong, in words; absences are none."""
    found = [f"{part}: {p['failed']}" for part, p in told["parts"].items() if "failed" in p]
    for name, entry in told["models"].items():
        found += [f"{name}: {failed}" for failed in entry.get("failed", [])]
        if entry.get("agrees") is False:
            found.append(f"{name}: differs from eager by {entry['difference']:.2g} of the largest magnitude")
    for kind, models in told.get("sanitizer", {}).items():
        found += [f"{kind}, {name}: {m['summary']}" for name, m in models.items() if m.get("clean") is False]
    return found


def us(time):
    return f"{1e6 * time['median_s']:,.1f}" if time else "not measured"


def number(value, form="{:.2f}"):
    return "not measured" if value is None else form.format(value)


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows), ""]


def reached(rows, good):
    return f"{sum(map(good, rows))} of {len(rows)} reach it"


def parity(told):
    rows, eager = [], {n: (e.get("torch") or {}).get("eager", {}).get("difference") for n, e in told["models"].items()}
    for name, e in told["models"].items():
        if "difference" in e:
            rows.append([name, f"{e['difference']:.1e}", number(eager[name], "{:.1e}"), "yes" if e["agrees"] else "**no**", e.get("graph", "not run")])
    if not rows:
        return ["Outputs were compared with nothing.", ""]
    return ["Largest difference from PyTorch eager on the CPU, float32, as a share of the largest magnitude; 1e-4 is allowed. "
            "Beside it eager's own on this device.", "",
            *table(["model", "ours", "eager on the device", "agrees", "graph of the run"], rows)]


def sanitizer(told):
    kinds = told.get("sanitizer")
    if not kinds:
        return ["Not run.", ""]
    names = sorted({n for models in kinds.values() for n in models})

    def said(kind, name):
        found = kinds[kind].get(name, {})
        return found.get("summary") or found.get("unknown") or "not run"

    return table(["model", *kinds], [[n, *(said(k, n) for k in kinds)] for n in names])


def times(told):
    rows, ratios = [], []
    ways = ["ours", "ours_graph", "eager", "eager_graph", "inductor", "inductor_graph"]
    for name, entry in told["models"].items():
        if entry["set"] != "models":
            continue
        t = of_model(entry)
        ours, theirs = best(t, "ours", "ours_graph"), best(t, "inductor", "inductor_graph")
        ratio = ours[0] / theirs[0] if ours and theirs else None
        ratios += [] if ratio is None else [ratio]
        rows.append([name, *(us(t.get(w)) for w in ways), number(ratio)])
    if not any(of_model(e).get("ours") for e in told["models"].values() if e["set"] == "models"):
        return ["Not measured.", ""]
    text = f"Target: at most {INDUCTOR} of inductor, the better of stream and graph for both. " + (
        reached(ratios, lambda r: r <= INDUCTOR) if ratios else "Inductor was not measured") + "."
    return ["Microseconds a run, medians of batches between two events; float32, TF32 off. Inductor: torch.compile's default mode, graphs by "
            "torch.cuda.CUDAGraph.", "", text, "",
            *table(["model", "ours", "ours, graph", "eager", "eager, graph", "inductor", "inductor, graph", "ours / inductor"], rows)]


def bandwidth(told):
    peak, rows, shares = told["device"].get("peak_bytes_s"), [], []
    for name, entry in told["models"].items():
        t = of_model(entry)
        ours = best(t, "ours", "ours_graph")
        if entry["set"] != "kernels" or not ours:
            continue
        rate = entry["least_bytes"] / ours[0]
        share = rate / peak if peak else None
        shares += [] if share is None else [share]
        eager, inductor = best(t, "eager", "eager_graph"), best(t, "inductor", "inductor_graph")
        counted = entry.get("counters") or []
        rows.append([name, f"{entry['least_bytes'] / 1e6:,.0f}", f"{1e6 * ours[0]:,.1f}", f"{rate / 1e9:,.0f}", number(share, "{:.0%}"),
                     number(rate / told["copy_bytes_s"] if told.get("copy_bytes_s") else None, "{:.0%}"),
                     number(max((k["share"] for k in counted), default=None), "{:.0%}"),
                     *(number(1e6 * x[0] if x else None, "{:,.1f}") for x in (eager, inductor))])
    if not rows:
        return ["Not measured.", ""]
    text = f"Target: at least {BANDWIDTH:.0%} of the memory's bandwidth" + (
        f", {peak / 1e9:,.0f} GB/s by the device's clock and bus; " + reached(shares, lambda s: s >= BANDWIDTH) + "." if peak else ", which the device does not tell.")
    copy = f" A copy within the device moves {told['copy_bytes_s'] / 1e9:,.0f} GB/s, read and written." if told.get("copy_bytes_s") else ""
    return [text + copy, "", "MB are inputs, outputs and weights, each once.", "",
            *table(["kernel", "MB", "us", "GB/s", "of the bandwidth", "of the copy", "by ncu", "eager, us", "inductor, us"], rows)]


def layers(told):
    lines = []
    for name, entry in told["models"].items():
        steps = entry.get("steps")
        if not steps:
            continue
        whole = sum(s["median_s"] for s in steps)
        top = sorted(steps, key=lambda s: -s["median_s"])[:10]
        lines += [f"**{name}**: {len(steps)} calls, {1e6 * whole:,.0f} us together; the longest:", "",
                  *table(["layer", "us", "share"], [[f"`{s['name']}`", f"{1e6 * s['median_s']:,.1f}", f"{s['median_s'] / whole:.0%}"] for s in top])]
    return lines or ["Not measured.", ""]


def markdown(told):
    device = told.get("device")
    if not device:
        raise ValueError("there was no device: nothing was measured, nothing is written")
    if not device["gpu"]:
        raise ValueError(f"'{device['name']}' is no GPU: nothing of it is written")
    facts = [f"{device['name']}, compute capability {device['capability']}, {device['multiprocessors']} multiprocessors, "
             f"{device['memory_bytes'] / 2**30:.0f} GiB",
             f"driver {told.get('driver', 'unknown')}, CUDA {device['cuda_driver'] // 1000}.{device['cuda_driver'] % 1000 // 10} of the driver, "
             f"{device['cuda_runtime'] // 1000}.{device['cuda_runtime'] % 1000 // 10} of the program",
             f"PyTorch {told.get('torch', {}).get('torch', 'not there')}, cuBLASLt of {told.get('cublas')}",
             f"built by {told['prepared']['fxcc']}, {told['prepared']['compiler']}"]
    lines = ["# CUDA: what was measured", "", f"By `bench/cuda/run` on {told['date']}; written by it, of what it measured alone.", "", *(f"- {f}" for f in facts), ""]
    wrong = faults(told)
    missing = [f"{part}: {p['absent']}" for part, p in told["parts"].items() if "absent" in p]
    missing += [f"{name}: {e['absent']}" for name, e in told["models"].items() if "absent" in e]
    missing += [f"{name}, ncu: {e['counters_absent']}" for name, e in told["models"].items() if "counters_absent" in e]
    missing += [f"{name}, {way}: {t['absent']}" for name, e in told["models"].items() for way, t in (e.get("torch") or {}).items()
                if isinstance(t, dict) and "absent" in t]
    if wrong:
        lines += ["## What was wrong", "", *(f"- {w}" for w in wrong), ""]
    if missing:
        lines += ["## What was not there", "", *(f"- {m}" for m in missing), ""]
    for title, part in (("Times of models", times), ("Bandwidth of kernels", bandwidth), ("Parity", parity), ("compute-sanitizer", sanitizer), ("Layers", layers)):
        lines += [f"## {title}", "", *part(told)]
    return "\n".join(lines).rstrip("\n") + "\n"
