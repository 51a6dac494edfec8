rule dataset:
    output:
        arrays="data/{dataset}.npz",
        provenance="data/{dataset}.json",
    log:
        "logs/data/{dataset}.log",
    conda:
        "../../envs/data.yaml"
    params:
        recipe=lambda wildcards: wiring.recipe(wildcards.dataset),
        code=lambda wildcards: wiring.dataset_code(wildcards.dataset),
        seed=wiring.settings["seed"],
        mirror=wiring.mirror_option(),
    shell:
        "python -m tangentbench.suite.steps dataset {wildcards.dataset:q}"
        " --seed {params.seed:q} {params.mirror} --log {log:q}"
