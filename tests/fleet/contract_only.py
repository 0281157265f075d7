"""A snapshotter that knows the contract and nothing else: lock, pointer, archive, manifest.

    contract_only.py load DIR    take the lock, unpack the current archive into DIR, keep the lock
    contract_only.py save DIR    store DIR as the next archive, move the pointer, give the lock back

Where the bucket is, and who we are, is in the environment. Prints one JSON document.
"""

import datetime
import hashlib
import hmac
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request

TENANT, PROFILE, MAJOR = "acme", "alice", 131
FOLDER = f"snapshots/{TENANT}/{PROFILE}/{MAJOR}/"
TTL_MS = 300_000


class Conflict(Exception):
    """A conditional write was not made."""


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def request(method, key, body=b"", headers=None):
    """One signed request; the answer's body and entity tag."""
    endpoint, bucket = os.environ["S3_ENDPOINT"], os.environ["S3_BUCKET"]
    host = urllib.parse.urlparse(endpoint).netloc
    path = urllib.parse.quote(f"/{bucket}/{os.environ.get('S3_PREFIX', '')}{key}")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = "\n".join([method, path, "", lines, names, digest])
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    secret = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in scope.split("/"):
        secret = sign(secret, part)
    signature = hmac.new(secret, to_sign.encode(), hashlib.sha256).hexdigest()
    access = os.environ["AWS_ACCESS_KEY_ID"]
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    signed.update(headers or {})
    asked = urllib.request.Request(endpoint + path, data=body if method == "PUT" else None, headers=signed, method=method)
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.read(), answer.headers["ETag"]
    except urllib.error.HTTPError as error:
        if error.code == 404 and method == "GET":
            return None, None
        if error.code in (404, 409, 412) and method == "PUT":
            raise Conflict(key) from error
        raise


def get_json(name):
    body, tag = request("GET", FOLDER + name)
    return (json.loads(body), tag) if body is not None else (None, None)


def put_json(name, document, tag):
    """Replaces the version that was read, or creates what was absent."""
    condition = {"If-Match": tag} if tag else {"If-None-Match": "*"}
    request("PUT", FOLDER + name, json.dumps(document, indent=2).encode(), condition)


def now_ms():
    return int(time.time() * 1000)


def acquire():
    lock, tag = get_json("lock.json")
    if lock and lock["expires_at_ms"] >= now_ms():
        raise SystemExit(f"409: held by {lock['holder_run_id']}")
    now = now_ms()
    put_json("lock.json", {
        "version": 1,
        "holder_run_id": os.environ["RUN_ID"],
        "holder_host": "daytona",
        "holder_host_run_id": "",
        "acquired_at_ms": now,
        "renewed_at_ms": now,
        "expires_at_ms": now + TTL_MS,
        "renewal_count": 0,
    }, tag)


def release():
    lock, tag = get_json("lock.json")
    assert lock["holder_run_id"] == os.environ["RUN_ID"], lock
    lock["expires_at_ms"] = 0
    put_json("lock.json", lock, tag)


def load(directory):
    """Unpacks what the pointer names; whatever is wrong with it, the profile is fresh."""
    acquire()
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    pointer, _ = get_json("latest.json")
    if not pointer or not pointer["active_sha256_prefix"]:
        return {"outcome": "no_prior_state"}
    manifest, _ = request("GET", pointer["active_manifest_key"])
    archive, _ = request("GET", pointer["active_archive_key"])
    if manifest is None or archive is None:
        return {"outcome": "fresh_fallback"}
    manifest = json.loads(manifest)
    assert manifest["version"] == 1 and manifest["schema"] == "computer-plane.profile-snapshot", manifest
    if hashlib.sha256(archive).hexdigest() != manifest["archive_sha256"]:
        return {"outcome": "sha_mismatch"}
    if manifest["chrome_major_version"] != MAJOR:
        return {"outcome": "version_mismatch"}
    plain = subprocess.run(["zstd", "-dcq"], input=archive, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        # Older interpreters have no filters, and extract as this one does.
        filters = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
        tar.extractall(directory, **filters)
    return {"outcome": "success", "sha256_prefix": pointer["active_sha256_prefix"]}


def save(directory):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(directory, arcname=".")
    archive = subprocess.run(["zstd", "-9cq"], input=plain.getvalue(), stdout=subprocess.PIPE, check=True).stdout
    sha256 = hashlib.sha256(archive).hexdigest()
    name = f"profile-{sha256[:12]}"
    pointer, _ = get_json("latest.json")
    request("PUT", f"{FOLDER}{name}.tar.zst", archive)
    request("PUT", f"{FOLDER}{name}.manifest.json", json.dumps({
        "version": 1,
        "schema": "computer-plane.profile-snapshot",
        "tenant_id": TENANT,
        "profile_id": PROFILE,
        "chrome_major_version": MAJOR,
        "archive_sha256": sha256,
        "archive_size_bytes": len(archive),
        "uncompressed_size_bytes": len(plain.getvalue()),
        "captured_at_ms": now_ms(),
        "captured_by": {"host": "daytona", "host_run_id": os.environ["RUN_ID"], "writer_version": "fleet-1"},
        "mode": "cold",
        "chrome_uptime_seconds_at_capture": 0,
        "predecessor_sha256": "",
        "notes": "",
    }).encode())
    for _ in range(3):
        pointer, tag = get_json("latest.json")
        try:
            put_json("latest.json", {
                "version": 1,
                "active_sha256_prefix": sha256[:12],
                "active_archive_key": f"{FOLDER}{name}.tar.zst",
                "active_manifest_key": f"{FOLDER}{name}.manifest.json",
                "flipped_at_ms": now_ms(),
                "flipped_from_sha256_prefix": pointer["active_sha256_prefix"] if pointer else "",
            }, tag)
            break
        except Conflict:
            continue
    else:
        raise SystemExit("the pointer could not be moved")
    release()
    return {"outcome": "saved", "sha256_prefix": sha256[:12]}


if __name__ == "__main__":
    print(json.dumps({"load": load, "save": save}[sys.argv[1]](sys.argv[2])))
