"""Write the wheel of ``ferrite-pm`` from built files: wheel.py BUILT OUT

BUILT holds ferrite, lib_ferrite.so and libferrite_sqlite.so. The wheel has the module, the SQLite extension and the
command. SOURCE_DATE_EPOCH dates all files, so the same files give the same wheel, the only one in OUT: its name has the
glibc that it needs, and `pip install OUT/*.whl` means one.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "ferrite_pm"


def stripped(path: pathlib.Path) -> bytes:
    """Return the content of a program or library without its symbols and debug information."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "--strip-unneeded", "-o", file.name, path], check=True)
        return pathlib.Path(file.name).read_bytes()


def oldest_glibc(files: "list[bytes]") -> "tuple[int, int]":
    """Return the oldest glibc that has all symbols that the files ask for."""
    found = {tuple(map(int, match)) for data in files for match in re.findall(rb"GLIBC_(\d+)\.(\d+)", data)}
    return max(found)


def main(built: pathlib.Path, out: pathlib.Path) -> None:
    cargo = (HERE / "../../Cargo.toml").read_text()
    version = re.search(r'^version = "(.*)"', cargo, re.M)[1]
    date = max(time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6], (1980, 1, 1, 0, 0, 0))
    info = f"{NAME}-{version}.dist-info"

    binary = {
        "ferrite/_ferrite.abi3.so": stripped(built / "lib_ferrite.so"),
        "ferrite/libferrite_sqlite.so": stripped(built / "libferrite_sqlite.so"),
        f"{NAME}-{version}.data/scripts/ferrite": stripped(built / "ferrite"),
    }
    major, minor = oldest_glibc(list(binary.values()))
    tag = f"cp39-abi3-manylinux_{major}_{max(minor, 17)}_{platform.machine()}"
    sources = sorted(path for path in (HERE / "python").rglob("*") if path.suffix in (".py", ".pyi") or path.name == "py.typed")
    files = {str(path.relative_to(HERE / "python")): path.read_bytes() for path in sources}
    files.update(binary)
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: ferrite\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/METADATA"] = metadata(version)
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{name}"] = (HERE / "../.." / name).read_bytes()

    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in sorted(files.items()))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"{NAME}-*.whl"):
        old.unlink()
    wheel = out / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if name in binary else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(wheel)


def metadata(version: str) -> bytes:
    readme = (HERE / "README.md").read_text()
    head = [
        "Metadata-Version: 2.4",
        "Name: ferrite-pm",
        f"Version: {version}",
        "Summary: Durable storage at memory speed: objects, SQLite logs, disks and file systems",
        "License-Expression: Apache-2.0 OR MIT",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
    ]
    return ("\n".join(head) + "\n\n" + readme).encode()


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
