rule claims:
    input:
        lambda wildcards: wiring.study_tables(wildcards.study, wildcards.scale),
    output:
        "results/{scale}/{study}/claims.json",
    log:
        "logs/{scale}/{study}/claims.log",
    conda:
        "../../envs/report.yaml"
    params:
        entry=lambda wildcards: wiring.claims_entry(wildcards.study),
        code=wiring.code("claims"),
    shell:
        "python -m tangentbench.suite.steps claims {wildcards.study:q} --scale {wildcards.scale:q} --log {log:q}"


rule gallery:
    input:
        lambda wildcards: wiring.everything(wildcards.scale),
    output:
        page="results/{scale}/index.html",
        claims="results/{scale}/claims.json",
    log:
        "logs/{scale}/gallery.log",
    conda:
        "../../envs/report.yaml"
    params:
        entry=wiring.whole_catalogue(),
        code=wiring.code("gallery"),
    shell:
        "python -m tangentbench.suite.steps gallery --scale {wildcards.scale:q} --log {log:q}"
