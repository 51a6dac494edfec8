rule measure:
    input:
        datasets=lambda wildcards: wiring.datasets(
            wildcards.artifact, wildcards.scale, wildcards.part
        ),
        tables=lambda wildcards: wiring.used_tables(wildcards.artifact, wildcards.scale),
        grams=lambda wildcards: wiring.used_grams(
            wildcards.artifact, wildcards.scale, wildcards.part
        ),
    output:
        table="results/{scale}/{study}/parts/{artifact}/{part}.parquet",
        provenance="results/{scale}/{study}/parts/{artifact}/{part}.json",
    log:
        "logs/{scale}/{study}/{artifact}/{part}.log",
    group:
        lambda wildcards: "small_part" if wiring.part(wildcards).small else "part"
    conda:
        "../../envs/measure.yaml"
    threads: lambda wildcards: wiring.part(wildcards).threads
    resources:
        mem_mb=lambda wildcards, attempt: attempt * wiring.part(wildcards).memory_mb,
        runtime=lambda wildcards: wiring.part(wildcards).minutes,
        gpu=lambda wildcards: wiring.part(wildcards).gpus,
    params:
        settings=lambda wildcards: wiring.part_settings(
            wildcards.artifact, wildcards.scale, wildcards.part
        ),
        code=wiring.study_code,
        seed=wiring.settings["seed"],
    shell:
        "python -m tangentbench.suite.steps measure {wildcards.artifact:q} {wildcards.part:q}"
        " --scale {wildcards.scale:q} --seed {params.seed:q} --threads {threads}"
        " --code {params.code:q} --log {log:q}"


rule table:
    input:
        lambda wildcards: wiring.parts(wildcards.artifact, wildcards.scale),
    output:
        table="results/{scale}/{study}/{artifact}.parquet",
        csv="results/{scale}/{study}/{artifact}.csv",
        provenance="results/{scale}/{study}/{artifact}.json",
    log:
        "logs/{scale}/{study}/{artifact}/table.log",
    conda:
        "../../envs/measure.yaml"
    params:
        code=wiring.code("table"),
    shell:
        "python -m tangentbench.suite.steps table {wildcards.artifact:q} --scale {wildcards.scale:q} --log {log:q}"
