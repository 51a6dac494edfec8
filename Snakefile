from tangentbench.config import SCALES
from tangentbench.errors import TangentbenchError
from tangentbench.suite.workflow import Wiring

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


try:
    wiring = Wiring.load(config)
except TangentbenchError as error:
    raise WorkflowError(str(error)) from None

SCALE = wiring.scale


# Used with `--sdm apptainer` only: every rule then runs in this image, on the code of this checkout.
container: wiring.settings["container"]


rule all:
    default_target: True
    input:
        f"results/{SCALE}/index.html",


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/grams.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/targets.smk"
