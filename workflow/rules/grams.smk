# A Gram matrix, tile by tile: images prepared once, an empty store, a job for each tile, a certificate over all of them.
# Tiles are named by the plan, so Snakemake knows them before anything runs; any process on any machine may compute any.


rule gram_inputs:
    input:
        lambda wildcards: wiring.gram_dataset(wildcards.inputs, wildcards.scale),
    output:
        train="results/{scale}/gram_inputs/{inputs}/train.npy",
        test="results/{scale}/gram_inputs/{inputs}/test.npy",
    log:
        "logs/{scale}/gram_inputs/{inputs}.log",
    conda:
        "../../envs/measure.yaml"
    params:
        code=wiring.code("gram_inputs"),
        seed=wiring.settings["seed"],
    shell:
        "python -m tangentbench.suite.steps gram_inputs {wildcards.inputs:q}"
        " --scale {wildcards.scale:q} --seed {params.seed:q} --log {log:q}"


rule gram_store:
    input:
        lambda wildcards: wiring.gram_inputs(wildcards.inputs, wildcards.scale),
    output:
        "results/{scale}/grams/{inputs}/{kernel}/{matrix}/gram.json",
    log:
        "logs/{scale}/grams/{inputs}/{kernel}/{matrix}/store.log",
    conda:
        "../../envs/measure.yaml"
    params:
        kernel=lambda wildcards: wiring.gram_kernel(
            wildcards.inputs, wildcards.kernel, wildcards.scale
        ),
        code=wiring.code("gram_store"),
        tiles=wiring.tile_code,
    shell:
        "python -m tangentbench.suite.steps gram_store {wildcards.inputs:q} {wildcards.kernel:q} {wildcards.matrix:q}"
        " --scale {wildcards.scale:q} --code {params.tiles} --log {log:q}"


rule gram_tile:
    input:
        images=lambda wildcards: wiring.gram_inputs(wildcards.inputs, wildcards.scale),
        store="results/{scale}/grams/{inputs}/{kernel}/{matrix}/gram.json",
    output:
        "results/{scale}/grams/{inputs}/{kernel}/{matrix}/tiles/{tile}.npy",
    log:
        "logs/{scale}/grams/{inputs}/{kernel}/{matrix}/{tile}.log",
    group:
        lambda wildcards: "small_tile" if wiring.tile(wildcards).small else "tile"
    conda:
        "../../envs/measure.yaml"
    threads: lambda wildcards: wiring.tile(wildcards).threads
    resources:
        mem_mb=lambda wildcards, attempt: attempt * wiring.tile(wildcards).memory_mb,
        runtime=lambda wildcards: wiring.tile(wildcards).minutes,
        gpu=lambda wildcards: wiring.tile(wildcards).gpus,
    params:
        code=wiring.tile_code,
    shell:
        "python -m tangentbench.suite.steps gram_tile {wildcards.inputs:q} {wildcards.kernel:q} {wildcards.matrix:q} {wildcards.tile:q}"
        " --scale {wildcards.scale:q} --threads {threads} --log {log:q}"


rule gram_certificate:
    input:
        images=lambda wildcards: wiring.gram_inputs(wildcards.inputs, wildcards.scale),
        tiles=lambda wildcards: wiring.tiles(
            wildcards.inputs, wildcards.kernel, wildcards.matrix, wildcards.scale
        ),
    output:
        "results/{scale}/grams/{inputs}/{kernel}/{matrix}/certificate.json",
    log:
        "logs/{scale}/grams/{inputs}/{kernel}/{matrix}/certificate.log",
    conda:
        "../../envs/measure.yaml"
    threads: lambda wildcards: wiring.certificate(wildcards).threads
    resources:
        mem_mb=lambda wildcards, attempt: attempt
        * wiring.certificate(wildcards).memory_mb,
        runtime=lambda wildcards: wiring.certificate(wildcards).minutes,
    params:
        code=wiring.certificate_code,
    shell:
        "python -m tangentbench.suite.steps gram_certificate {wildcards.inputs:q} {wildcards.kernel:q} {wildcards.matrix:q}"
        " --scale {wildcards.scale:q} --threads {threads} --log {log:q}"
