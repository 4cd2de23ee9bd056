"""The package's version, for modules that must not import the package itself."""


def installed_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ikeanalyze")
    except PackageNotFoundError:
        return "unknown (not installed)"
