rule figure:
    input:
        "results/{scale}/{study}/{artifact}.parquet",
    output:
        png="results/{scale}/{study}/{artifact}.png",
        pdf="results/{scale}/{study}/{artifact}.pdf",
    log:
        "logs/{scale}/{study}/{artifact}/figure.log",
    conda:
        "../../envs/figures.yaml"
    params:
        entry=lambda wildcards: wiring.entry(wildcards.artifact),
        code=lambda wildcards: wiring.figure_code(wildcards.artifact),
    shell:
        "python -m tangentbench.suite.steps figure {wildcards.artifact:q} --scale {wildcards.scale:q} --log {log:q}"
