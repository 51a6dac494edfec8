# Wildcards are names of the catalogue, never paths; a part is what the catalogue's split makes.


wildcard_constraints:
    scale="quick|cpu|paper",
    study="|".join(wiring.catalogue.studies),
    artifact="|".join(wiring.catalogue.by_name),
    dataset="[a-z][A-Za-z0-9_]*",
    part="[^/]+",
    gram="[a-z][A-Za-z0-9_]*",
    kernel="[^/]+",
    inputs="[^/]+",
    matrix="train|test",
    tile=r"\d{5}-\d{5}",


# Without conda or a container, `python` is the one that runs Snakemake, activated or not.
if not workflow.deployment_settings.deployment_method:
    shell.prefix(f"export PATH={Path(sys.executable).parent}:$PATH; ")
