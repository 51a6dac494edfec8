import shlex

# Wildcards are names of the catalogue, never paths; a part is what the catalogue's split makes.


wildcard_constraints:
    scale="|".join(SCALES),
    study="|".join(wiring.catalogue.studies),
    artifact="|".join(wiring.catalogue.by_name),
    dataset="[a-z][A-Za-z0-9_]*",
    part="[^/]+",
    gram="[a-z][A-Za-z0-9_]*",
    kernel="[^/]+",
    inputs="[^/]+",
    matrix="train|test",
    tile=r"\d{5}-\d{5}",


# Without conda or a container, `python` is the one that runs Snakemake, activated or not. With them packages come from
# there and the suite from this checkout, whose code the fingerprints speak of.
# The device is no parameter of a rule: changing the device does not invalidate results.
# Snakemake formats the prefix, so braces of a path are doubled.
if workflow.deployment_settings.deployment_method:
    place = 'PYTHONPATH="$PWD/src"'
else:
    place = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
device = shlex.quote(str(wiring.settings["device"]))
prefix = f"export TANGENTBENCH_DEVICE={device} {place}; "
shell.prefix(prefix.replace("{", "{{").replace("}", "}}"))
